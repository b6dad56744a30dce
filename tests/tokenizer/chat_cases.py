"""Chat templates in the style of Llama 3, Qwen2 and ChatML, and what transformers makes of conversations with them."""

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


def theirs():
    """Of each template and conversation: all of it, and its beginning with the prompt for an answer."""
    from transformers.utils.chat_template_utils import render_jinja_template
    result = {}
    for name, template in TEMPLATES.items():
        def render(messages, prompt):
            return render_jinja_template([messages], chat_template=template, add_generation_prompt=prompt, bos_token="<|begin|>", eos_token="<|end|>")[0][0]

        result[name] = [[render(messages, False), render(messages[:-1], True)] for messages in CONVERSATIONS]
    return result
