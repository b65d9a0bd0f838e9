// Written soon.
"use strict";
