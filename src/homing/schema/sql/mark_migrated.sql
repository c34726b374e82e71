-- Note that a migration was applied, in the transaction that applied it.
-- Parameters: :number and :name from the file's name; :sha256 of its bytes, in hexadecimal.
INSERT INTO homing.migrations (number, name, sha256) VALUES (:number, :name, :sha256);
