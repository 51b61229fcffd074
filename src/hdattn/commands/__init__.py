"""The commands of ``hdattn``: options to library calls, results to a table or one JSON object."""
