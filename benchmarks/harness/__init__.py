"""How a benchmark is run: processes, interleaved rounds, intervals, tables."""
