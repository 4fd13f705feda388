"""uvicorn with connection limits and a strict HTTP/1.1 parser."""
