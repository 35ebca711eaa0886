from tests import shapes as shapes  # jaxtyping looks the checker up as an attribute
