"""Is this the node that was bought, and is it ready? Pure: an identity document and what is expected in, findings out."""
