"""Handlers in child processes: those that fill a processor, and jobs under suspicion."""
