from .bundle import make_bundle as make_bundle
from .document import read_mixture as read_mixture
from .receipt import make_receipt as make_receipt
from .receipt import read_receipt as read_receipt
from .receipt import sketch_of as sketch_of
from .receipt import verify_receipt as verify_receipt
from .receipt import write_receipt as write_receipt
