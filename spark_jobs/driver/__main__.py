"""`python -m spark_jobs.driver SOCKET` serves there; tasks start it themselves."""

import sys
from pathlib import Path

from spark_jobs.driver.protocol import DriverFiles
from spark_jobs.driver.server import Driver

if __name__ == "__main__":
    socket = Path(sys.argv[1])
    Driver(DriverFiles(socket.parent, socket.stem)).serve()
