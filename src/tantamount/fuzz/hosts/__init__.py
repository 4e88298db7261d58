"""Scripts that run inside the environment of a compiler: they need NumPy and that compiler, and nothing of ours."""
