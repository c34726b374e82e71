-- Nothing stays lost: what the repair of losses, dead letters, retention and upkeep need beyond the first tables.
-- As in 0001: the exact meaning of each column is in docs/reference/tables.md, and nothing here locks an application's own tables.

-- Vacuum by rows, not by share of the table: every routed event and every settled delivery leaves one dead row behind, and the
-- questions that are asked all day walk over the dead ends of their index entries. With the default share of a fifth, a table of
-- five million rows lets a million of them pile up; and the default shortcut that leaves indexes alone is what must not be taken.
ALTER TABLE homing.outbox_events SET (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 20000, vacuum_index_cleanup = on);
ALTER TABLE homing.deliveries SET (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 20000, vacuum_index_cleanup = on);
