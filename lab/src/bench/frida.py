"""Runs PROGRAM COUNT with frida-gum's Interceptor at its function `empty`: two callbacks in C, which do nothing (`pip install frida`)."""
import re
import subprocess
import sys
import time

import frida

SCRIPT = """
const code = new CModule(`
#include <gum/guminterceptor.h>
void onEnter(GumInvocationContext *context) {}
void onLeave(GumInvocationContext *context) {}
`);
Interceptor.attach(Process.mainModule.base.add(%d), {onEnter: code.onEnter, onLeave: code.onLeave});
"""

program, count = sys.argv[1:3]
symbols = subprocess.run(["nm", program], capture_output=True, text=True, check=True).stdout
address = int(re.search(r"^(\w+) T empty$", symbols, re.M)[1], 16)
process = frida.spawn([program, count], stdio="inherit")
session = frida.attach(process)
ended = []
errors = []
session.on("detached", lambda *_: ended.append(True))
script = session.create_script(SCRIPT % address)
script.on("message", lambda message, _: errors.append(message))
script.load()
if errors:
    frida.kill(process)
    sys.exit(str(errors[0].get("description")))
frida.resume(process)
while not ended:
    time.sleep(0.05)
