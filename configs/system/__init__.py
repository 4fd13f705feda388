"""The process and its machine: backend, imports, threads, memory, CPU features."""
