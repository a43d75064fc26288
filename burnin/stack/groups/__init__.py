"""The groups of a resolution, one module each: `NAME`, and `build`, which takes an Ask and gives a Group."""
