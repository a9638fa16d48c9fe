"""How a database gets to the present tables, step by step; run by `migrate`, which needs no alembic.ini."""
