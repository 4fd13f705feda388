"""All supported families in Hugging Face's format."""

from transbeam.model.weights.hugging_face.bert import BERT
from transbeam.model.weights.hugging_face.distilbert import DISTILBERT
from transbeam.model.weights.hugging_face.gpt2 import GPT2
from transbeam.model.weights.hugging_face.llama import LLAMA
from transbeam.model.weights.hugging_face.roberta import ROBERTA
from transbeam.model.weights.hugging_face.t5 import T5
from transbeam.model.weights.hugging_face.vit import VIT

# In the order in which an export tries them.
FAMILIES = {
    family.model_type: family
    for family in (BERT, ROBERTA, DISTILBERT, GPT2, LLAMA, T5, VIT)
}
