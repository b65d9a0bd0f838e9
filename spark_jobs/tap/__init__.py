"""`onceover tap`: a proxy between clients and a broker that writes produce requests as captures."""
