"""The detectors, one file each; the file's name is the detector's name everywhere.

The head of each file is its page (`loopwarden explain`), completed by three constants: `OPTIONS`, the
fields that tune it; `EXAMPLE`, a run as a strip of letters; and `LEGEND`, what the letters of that strip
stand for where it is not the default of `loopwarden.testing`.
"""
