"""What is on sale in a trial, and for how many dong."""

GOODS = {"tea": 9_900, "coffee": 35_000, "lamp": 129_000, "rice-cooker": 250_000, "bicycle": 4_700_000}
