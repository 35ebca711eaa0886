"""What a prefix adds to the attention of many queries by compiled code: one call in place of some fifteen."""
