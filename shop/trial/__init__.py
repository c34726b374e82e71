"""What every trial of the whole shop shares, the demonstration as well as the soak: its processes, its customers, its witnesses."""
