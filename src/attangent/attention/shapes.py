"""Names for the shapes of tensors; jaxtyping checks them while the tests run."""

from jaxtyping import Float
from torch import Tensor

Queries = Float[Tensor, "batch heads queries dim"]
Keys = Float[Tensor, "batch kv_heads keys dim"]
Values = Float[Tensor, "batch kv_heads keys value_dim"]
Outputs = Float[Tensor, "batch heads queries value_dim"]
# one number per query, such as the logsumexp of its logits
RowNumbers = Float[Tensor, "batch heads queries"]
PerRow = Float[Tensor, "batch heads queries 1"]

# a prefix: Z and masses over r features, or virtual tokens of all heads, head after head
StateZ = Float[Tensor, "state_heads size value_dim"]
StateMass = Float[Tensor, "state_heads size"]
TokenKeys = Float[Tensor, "tokens dim"]
TokenZ = Float[Tensor, "tokens value_dim"]
TokenMass = Float[Tensor, " tokens"]

# a feature map: any rows of queries or keys, and its affine form per head
Inputs = Float[Tensor, "*rows dim"]
Features = Float[Tensor, "*rows size"]
Evaluated = tuple[Features, Float[Tensor, "*#rows 1"] | None]
Pulled = tuple[Inputs, tuple[Tensor, ...]]
HeadWeights = Float[Tensor, "heads rows dim"]
HeadBiases = Float[Tensor, "heads rows"]
