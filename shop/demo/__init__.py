"""The whole system on one machine, with everything going wrong that may go wrong: `make demo`."""
