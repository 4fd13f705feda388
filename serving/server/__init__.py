"""A model server with TF Serving's REST and gRPC APIs.

`protocol/` parses requests and writes responses, `inference/` runs signatures,
`models/` loads model versions and batches their requests, `streaming/` generates texts
token by token, `request_handling/` handles the requests of both APIs, `rest_api/` and
`grpc_api/` are the servers of the two APIs, and `run` runs the server process.
"""
