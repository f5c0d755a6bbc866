//! `openshell-container`: what any OCI engine is told: plans, labels, volumes, images, byte delivery.
