"""Steps of datapaths that the arithmetic shares: unpack, multiply, shift, add, round, and cuts between them."""
