"""serve: the planner as a service that loses nothing."""
