"""Sample calls of every operator, as data: one file per family of operators; ``table.SAMPLES`` has them all."""
