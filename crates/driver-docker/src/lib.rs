//! `openshell-driver-docker`: the Docker engine, spoken to with bollard.
