"""What runs inside the environment of a compiler: scripts that need NumPy and that compiler, and nothing of ours."""
