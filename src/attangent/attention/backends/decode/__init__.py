"""One new token at a time: folded weights, and compiled code where there is a C compiler."""
