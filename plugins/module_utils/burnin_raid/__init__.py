"""nvme_raid0: read the drives, decide, and only then write."""
