"""A model server of our own, with TF Serving's contract over REST and gRPC.

`contract/` knows what requests and answers look like, `models/` which versions there
are and how they are run, `streaming/` how texts are sent token by token, `recording/`
keeps requests in files, `rest` and `rpc` are the two doors, `run` the process.
"""
