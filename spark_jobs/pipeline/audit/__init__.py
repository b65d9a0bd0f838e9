"""`audit`: what must hold before a run is published."""
