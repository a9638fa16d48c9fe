"""A training run spread over workers: same bits as in one process, whatever the number of shards."""
