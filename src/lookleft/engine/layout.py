"""How the panels of a matrix lie in memory, for those who make them and those who read them.

A panel holds 8 features, so that a register holds 8 neighbours. What it has per block of 32 input
features, in bytes:

    FLOAT32   1024   32 x 8 numbers
    INT8       256   16 x (8 features x 2 neighbours); one scale per feature, applied at the end
    BLOCK8     272   8 scales (16-bit), then as INT8
    BLOCK4     160   8 scales, 8 offsets (16-bit), then 4 x 32 bytes: 4 numbers in each 16 bits
    WIDE4      288   8 scales, 8 offsets, then as INT8: what BLOCK4 becomes while many rows use it
"""

FLOAT32, INT8, BLOCK8, BLOCK4, WIDE4 = range(5)  # kinds of panels
LANES = 8  # features in a panel
WIDTH = 16  # features in a tile: two panels
BLOCK = 32  # input features that share a scale
BLOCK_BYTES = {FLOAT32: 1024, INT8: 256, BLOCK8: 272, BLOCK4: 160, WIDE4: 288}  # of one panel
HEADER_BYTES = {INT8: 0, BLOCK8: 2 * LANES, BLOCK4: 4 * LANES, WIDE4: 4 * LANES}  # before levels
