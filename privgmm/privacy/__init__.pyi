from .composition import Price as Price
from .composition import price_of as price_of
from .curves import RenyiCurve as RenyiCurve
from .noise import DiscreteGaussian as DiscreteGaussian
from .noise import TruncatedLaplace as TruncatedLaplace
