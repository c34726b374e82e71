"""The reference shop: a modular monolith whose background work runs on Homing."""
