"""The studio: a page on which a trained run can be seen at work.

This folder has the computations, the files of the page and the JSON schemas.
`transbeam.serving.server.studio_api` puts them behind the server's REST API; nothing
here knows HTTP.
"""
