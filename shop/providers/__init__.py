"""The shop's outside world: a payment gateway, a carrier and a mail server that run as processes and misbehave on request."""
