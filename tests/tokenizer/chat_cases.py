"""Chat templates in the style of Llama 3, Qwen2 and ChatML, and what transformers makes of conversations with them."""

import json

import material

LLAMA3 = ("{{- bos_token }}\n{%- if messages[0]['role'] == 'system' %}\n    {%- set system_message = messages[0]['content']|trim %}\n    {%- set messages = messages[1:] %}\n"
          "{%- else %}\n    {%- set system_message = \"\" %}\n{%- endif %}\n{{- \"<|start_header_id|>system<|end_header_id|>\\n\\n\" }}\n{{- \"Today: 26 Jul 2024\\n\\n\" }}\n"
          "{{- system_message }}\n{{- \"<|eot_id|>\" }}\n{%- for message in messages %}\n    {%- if not (message.role == 'ipython' or message.role == 'tool') %}\n"
          "        {{- '<|start_header_id|>' + message['role'] + '<|end_header_id|>\\n\\n'+ message['content'] | trim + '<|eot_id|>' }}\n"
          "    {%- else %}\n        {{- raise_exception(\"no tools here\") }}\n    {%- endif %}\n{%- endfor %}\n"
          "{%- if add_generation_prompt %}\n    {{- '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}\n{%- endif %}\n")
QWEN2 = ("{%- if messages[0].role == 'system' %}\n    {{- '<|im_start|>system\\n' + messages[0].content + '<|im_end|>\\n' }}\n{%- else %}\n"
         "    {{- '<|im_start|>system\\nYou are a helpful assistant.<|im_end|>\\n' }}\n{%- endif %}\n{%- for message in messages %}\n"
         "    {%- if (message.role == \"user\") or (message.role == \"system\" and not loop.first) or (message.role == \"assistant\" and not message.tool_calls) %}\n"
         "        {{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>' + '\\n' }}\n    {%- endif %}\n{%- endfor %}\n"
         "{%- if add_generation_prompt %}\n    {{- '<|im_start|>assistant\\n' }}\n{%- endif %}\n")
TEMPLATES = {"chatml": material.CHATML, "llama3": LLAMA3, "qwen2": QWEN2}


def message(role, content):
    return {"role": role, "content": content}


CONVERSATIONS = [
    [message("user", "Hi"), message("assistant", "Hello!")],
    [message("system", " Be brief. "), message("user", "What is 1+1?\n"), message("assistant", "  2  ")],
    [message("user", "\u4f60\u597d"), message("assistant", "\u4f60\u597d\u3002\n\nWhat?"), message("user", "'quoted' \"text\" <|im_end|> {{ x }}"), message("assistant", "")],
]

# ChatML with what is the assistant's marked for transformers.
MARKED = material.CHATML.replace("{{'<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n'}}",
                                 "{{'<|im_start|>' + message['role'] + '\n'}}{% if message['role'] == 'assistant' %}{% generation %}{{message['content'] + '<|im_end|>'}}"
                                 "{% endgeneration %}{% else %}{{message['content'] + '<|im_end|>'}}{% endif %}{{'\n'}}")
# Where words and tokens reach over the border of an answer, or are not the bytes of the text.
ANSWERS = ["Hello!", "\n\nhello", "\n", " \n\n  x", "", "  2  ", "the\n\n", "e\u0301\u0301 A\u030angstro\u0308m \u1112\u1161\u11ab", "cafe\u0301! caf\u00e9!", "  [MASK]  [MASK] ",
           "[MASK]", "qzone", "\u4f60\u597d\u3002", "a<|end|>b", "12 345"]


def mask_kinds():
    """tokenizer.json of the kinds whose ids and marks of conversations are compared."""
    newline = material.byte_characters()[ord("\n")]
    kinds = material.kinds(material.train(100) + [(newline, newline), (newline * 2, newline)])
    # As Qwen2's own file has it: else transformers finds no token where an answer begins with white space, and marks nothing.
    untrimmed = {"post_processor": material.byte_level(use_regex=False, trim_offsets=False)}
    return {"qwen2": {**kinds["qwen2"], **untrimmed}, "odd_tokens": {**kinds["odd_tokens"], **untrimmed}, "gpt2_space": kinds["gpt2_space"], "digits": kinds["digits"]}


def mask_conversations():
    return [[message("user", "Hi\n"), message("assistant", answer), message("user", "[MASK]"), message("assistant", answer)] for answer in ANSWERS]


def masks():
    """Of each kind and conversation: ids, as ~id where they are not the assistant's."""
    import tokenizers
    import transformers
    result = {}
    for name, kind in mask_kinds().items():
        tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizers.Tokenizer.from_str(json.dumps(kind)),
                                                         add_prefix_space=name == "gpt2_space")  # it would set false

        def of(messages):
            said = tokenizer.apply_chat_template(messages, chat_template=MARKED, return_dict=True, return_assistant_tokens_mask=True)
            return " ".join(str(number if marked else ~number) for number, marked in zip(said["input_ids"], said["assistant_masks"]))

        result[name] = [of(messages) for messages in mask_conversations()]
    return result


def theirs():
    """Of each template and conversation: all of it, and its beginning with the prompt for an answer."""
    from transformers.utils.chat_template_utils import render_jinja_template
    result = {}
    for name, template in TEMPLATES.items():
        def render(messages, prompt):
            return render_jinja_template([messages], chat_template=template, add_generation_prompt=prompt, bos_token="<|begin|>", eos_token="<|end|>")[0][0]

        result[name] = [[render(messages, False), render(messages[:-1], True)] for messages in CONVERSATIONS]
    return result
