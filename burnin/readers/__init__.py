"""What other tools print -> links, counters and findings. Pure: text and data in, records out.

A reader is a module with TOOL and parse(output); to add one: write the file, add it to READERS. What it does not know it refuses with ReadingError.
"""
