"""How the panels of a matrix lie in memory, for those who make them and those who read them.

A panel holds 16 features, so that a register holds neighbours: 8 of them or all, as wide as it is.
What a panel has per block of 32 input features, in bytes:

    FLOAT32   2048   32 x 16 numbers
    INT8       512   16 x (16 features x 2 neighbours); one scale per feature, applied at the end
    BLOCK8     544   16 scales (16-bit), then as INT8
    BLOCK4     320   16 scales, 16 offsets (16-bit), then 4 x 64 bytes: 4 numbers in each 16 bits
    WIDE4      576   16 scales, 16 offsets, then as INT8: BLOCK4 while many rows use it
    QUAD8      544   16 scales and 8 x (16 features x 4 neighbours), each with 128 added: BLOCK8 for
                     activations of 8 bits. Scales of all blocks come first, so that the rest lies
                     in whole lines of the cache
"""

FLOAT32, INT8, BLOCK8, BLOCK4, WIDE4, QUAD8 = range(6)  # kinds of panels
WIDTH = 16  # features in a panel
BLOCK = 32  # input features that share a scale
BLOCK_BYTES = {FLOAT32: 2048, INT8: 512, BLOCK8: 544, BLOCK4: 320, WIDE4: 576, QUAD8: 544}
QUAD8_SCALES = 2 * WIDTH  # bytes of a block
# What stands before the levels of a block.
HEADER_BYTES = {INT8: 0, BLOCK8: 2 * WIDTH, BLOCK4: 4 * WIDTH, WIDE4: 4 * WIDTH}
