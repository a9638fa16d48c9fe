"""The domain of the service: state, events, decisions. No database, no network, no clock."""
