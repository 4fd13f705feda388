"""A model server with TF Serving's REST and gRPC APIs.

`protocol/` reads and writes requests and responses, `inference/` runs signatures,
`models/` loads and batches model versions, `streaming/` generates texts token by token,
`request_handling/` serves both APIs, `rest_api/` and `grpc_api/` expose them, and `run`
is the process.
"""
