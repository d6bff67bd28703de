// Every page works without this script; it only saves keystrokes and clicks.
"use strict";
