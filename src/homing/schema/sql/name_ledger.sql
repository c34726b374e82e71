-- Give the ledger its identity and its engine, once.
-- Parameters: :engine is redis or postgres. Guard: the row that exists stays as it is.
INSERT INTO homing.ledger (engine) VALUES (:engine) ON CONFLICT (only_row) DO NOTHING;
