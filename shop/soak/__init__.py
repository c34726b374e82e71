"""The shop under chaos: servers, processes and partners fail at random moments of one run, and the books are opened: `make soak`."""
