"""One module per stage: what the command's verbs do, on top of the adapters and the pure parts."""
