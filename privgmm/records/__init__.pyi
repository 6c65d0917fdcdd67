from .bundle import make_bundle as make_bundle
from .receipt import make_receipt as make_receipt
from .receipt import sketch_of as sketch_of
from .receipt import verify_receipt as verify_receipt
from .receipt import write_receipt as write_receipt
