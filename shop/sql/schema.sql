-- Everything the shop itself keeps, in a schema of its own. Applied by `python -m shop.migrate`; applying it again changes nothing.
-- Money is whole Vietnamese dong, below 2^53 so that every reader of JSON gets the same number.

CREATE SCHEMA IF NOT EXISTS shop;

CREATE TABLE IF NOT EXISTS shop.stock (                    -- inventory: what can be sold, and how much of it is left
  sku text PRIMARY KEY CHECK (sku <> ''),
  unit_price bigint NOT NULL CHECK (unit_price BETWEEN 1 AND 9007199254740991),
  weight_grams integer NOT NULL CHECK (weight_grams > 0),
  available bigint NOT NULL CHECK (available >= 0));       -- two buyers of the last piece: one of them fails here

CREATE TABLE IF NOT EXISTS shop.reservations (             -- inventory: taken out of the stock for an order, at the price of that moment
  order_id uuid NOT NULL,
  sku text NOT NULL REFERENCES shop.stock (sku),
  quantity bigint NOT NULL CHECK (quantity > 0),
  unit_price bigint NOT NULL CHECK (unit_price BETWEEN 1 AND 9007199254740991),
  weight_grams integer NOT NULL CHECK (weight_grams > 0),
  reserved_at timestamptz NOT NULL DEFAULT clock_timestamp(),
  released_at timestamptz,                                 -- set once, together with the return to the stock
  PRIMARY KEY (order_id, sku));

CREATE TABLE IF NOT EXISTS shop.checkouts (                -- orders: the intent, written before anybody outside is asked for anything
  idempotency_key text PRIMARY KEY CHECK (length(idempotency_key) BETWEEN 1 AND 200),
  fingerprint text NOT NULL,                               -- what the first request with this key said
  order_id uuid NOT NULL UNIQUE,
  status text NOT NULL DEFAULT 'open' CHECK (status IN ('open', 'ordered', 'refused', 'released')),
  refusal text,
  attempts integer NOT NULL DEFAULT 1 CHECK (attempts > 0),
  holder uuid NOT NULL,                                    -- the request (or clean-up) that works on it: whoever finishes must still be it
  busy_until timestamptz NOT NULL,                         -- until then others stay away, unless the holder gives it back
  expires_at timestamptz NOT NULL,                         -- from then on the clean-up may undo it
  CHECK ((status = 'refused') = (refusal IS NOT NULL)));
CREATE INDEX IF NOT EXISTS checkouts_open ON shop.checkouts (expires_at) WHERE status = 'open';

CREATE TABLE IF NOT EXISTS shop.orders (                   -- orders
  id uuid PRIMARY KEY,
  customer_id uuid NOT NULL,
  email text NOT NULL CHECK (email <> ''),
  address text NOT NULL CHECK (address <> ''),
  total bigint NOT NULL CHECK (total BETWEEN 0 AND 9007199254740991),
  weight_grams integer NOT NULL CHECK (weight_grams > 0),
  status text NOT NULL CHECK (status IN ('placed', 'cancelled')),
  placed_at timestamptz NOT NULL DEFAULT clock_timestamp(),
  cancelled_at timestamptz,
  CHECK ((status = 'cancelled') = (cancelled_at IS NOT NULL)));

CREATE TABLE IF NOT EXISTS shop.order_lines (
  order_id uuid NOT NULL REFERENCES shop.orders (id),
  sku text NOT NULL,
  quantity bigint NOT NULL CHECK (quantity > 0),
  unit_price bigint NOT NULL CHECK (unit_price BETWEEN 1 AND 9007199254740991),
  PRIMARY KEY (order_id, sku));

CREATE TABLE IF NOT EXISTS shop.payments (                 -- payments: the referee between capturing and voiding
  order_id uuid PRIMARY KEY REFERENCES shop.orders (id),
  customer_id uuid NOT NULL,
  authorization_id text NOT NULL UNIQUE,
  amount bigint NOT NULL CHECK (amount BETWEEN 0 AND 9007199254740991),
  status text NOT NULL DEFAULT 'authorized'
    CHECK (status IN ('authorized', 'captured', 'voiding', 'voided', 'refund_due')),
  capture_id text,
  changed_at timestamptz NOT NULL DEFAULT clock_timestamp(),
  CHECK ((status IN ('captured', 'refund_due')) = (capture_id IS NOT NULL)));

CREATE TABLE IF NOT EXISTS shop.sent_emails (              -- notifications: written after the sending, see notifications/service.py
  kind text NOT NULL,
  order_id uuid NOT NULL REFERENCES shop.orders (id),
  sent_at timestamptz NOT NULL DEFAULT clock_timestamp(),
  PRIMARY KEY (kind, order_id));

CREATE TABLE IF NOT EXISTS shop.shipments (                -- shipping: at most one per parcel, whatever runs twice
  order_id uuid NOT NULL REFERENCES shop.orders (id),
  parcel smallint NOT NULL CHECK (parcel > 0),
  tracking_number text NOT NULL UNIQUE,
  recorded_at timestamptz NOT NULL DEFAULT clock_timestamp(),
  PRIMARY KEY (order_id, parcel));

CREATE TABLE IF NOT EXISTS shop.loyalty_accounts (         -- loyalty
  customer_id uuid PRIMARY KEY,
  points bigint NOT NULL CHECK (points >= 0));
