"""What people see and do: questions to the ledger and the engine, and deeds that are kept. Command line and pages share them."""
